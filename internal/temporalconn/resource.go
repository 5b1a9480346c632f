package temporalconn

import (
	"context"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// resourceHeader is the header in which the SDK sends the workflow ID of each request, as a hint for gateways
// (temporalio/features#721: optional, and the server does not trust it). gRPC rejects header values outside printable
// ASCII. With the SDK's unescaped value, turns of a session whose ID is in another script could not be started or
// run.
const resourceHeader = "temporal-resource-id"

// AnyWorkflowID returns a dial option that escapes the workflow ID in that header, so that IDs in any script work.
// Dial uses it.
func AnyWorkflowID() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		md, _ := metadata.FromOutgoingContext(ctx)
		if values := md.Get(resourceHeader); len(values) > 0 && !printableASCII(values[0]) {
			md = md.Copy()
			md.Set(resourceHeader, url.QueryEscape(values[0]))
			ctx = metadata.NewOutgoingContext(ctx, md)
		}
		return invoker(ctx, method, req, reply, cc, opts...)
	})
}

// printableASCII reports whether gRPC accepts s as a header value.
func printableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}
