# The worker and everturn as static programs, beside git, which canvases need, and without root:
#
#   docker build --build-arg VERSION=v0.1.0 -t everturn .
#   docker run -e TEMPORAL_ADDRESS=… -e OPENAI_API_KEY=… -v everturn:/data -v "$PWD:/workspace" everturn
#   docker run --entrypoint /usr/local/bin/everturn … everturn run "Which files are here?"
#
# To let the tools write to a mounted /workspace, add --user "$(id -u):$(id -g)". The worker listens on no port. MCP
# servers over stdio need their own programs: add them in an image that is built from this one. Workers on several
# machines need [journal] url.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags "-s -w -X github.com/everturn/everturn/internal/version.stamp=${VERSION}" -o /out/everturn ./starter
RUN go build -trimpath -ldflags "-s -w -X github.com/everturn/everturn/internal/version.stamp=${VERSION}" -o /out/everturn-worker ./worker
RUN mkdir -m 700 /data /workspace

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /usr/local/bin/
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build --chown=65532:65532 /workspace /workspace
USER 65532:65532
WORKDIR /workspace
ENV EVERTURN_JOURNAL_PATH=/data/journal.db
VOLUME /data
ENTRYPOINT ["/usr/local/bin/everturn-worker"]
