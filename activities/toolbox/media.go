package toolbox

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of the images and audio of one result. A block over them is treated as any other binary.
const (
	maxMedia      = 8
	maxMediaBytes = 8 << 20
)

// mediaTypes maps detected content types to those of images and audio. Detection is by content (http.DetectContentType,
// the WHATWG MIME sniffing standard). Image types that may contain scripts are left out.
var mediaTypes = map[string]string{
	"image/png": "image/png", "image/jpeg": "image/jpeg", "image/gif": "image/gif", "image/webp": "image/webp",
	"audio/wave": "audio/wav", "audio/mpeg": "audio/mpeg", "application/ogg": "audio/ogg", "audio/aiff": "audio/aiff",
}

// sniff returns the media type of data by its content, or an empty string if it is neither an image nor audio. The
// declared type counts only for containers that hold audio and video alike.
func sniff(data []byte, declared string) string {
	found, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if t, ok := mediaTypes[found]; ok {
		return t
	}
	audio := strings.HasPrefix(declared, "audio/")
	switch {
	case bytes.HasPrefix(data, []byte("fLaC")):
		return "audio/flac"
	case audio && found == "video/mp4":
		return "audio/mp4"
	case audio && found == "video/webm":
		return "audio/webm"
	case audio && len(data) > 1 && data[0] == 0xff &&
		data[1]&0xe6 == 0xe2: // MPEG audio frame, layer III, without an ID3 tag
		return "audio/mpeg"
	}
	return ""
}

// media collects the images, audio and other binary blocks of a result.
type media struct {
	kept     []turn.Media
	binaries []binary
	size     int64
}

// binary is a block that is neither text nor media.
type binary struct {
	data []byte
	mime string
}

// add keeps a block and returns the line that replaces it in the text.
func (m *media) add(declared, kind string, data []byte) (note string) {
	m.size += int64(len(data))
	if declared = mediaType(declared); declared == "" {
		declared = kind
	}
	if t := sniff(data, declared); t != "" && len(m.kept) < maxMedia && len(data) <= maxMediaBytes {
		m.kept = append(m.kept, turn.Media{Type: t, Bytes: int64(len(data)), Data: data})
		return fmt.Sprintf("[%s, %s]", t, printable.Size(int64(len(data))))
	}
	m.binaries = append(m.binaries, binary{data: data, mime: declared})
	return fmt.Sprintf("[%s, %s]", declared, printable.Size(int64(len(data))))
}

// mediaType returns the declared type without parameters, or an empty string if it is malformed.
func mediaType(declared string) string {
	t, _, err := mime.ParseMediaType(declared)
	if err != nil || len(t) > 80 || printable.Line(t, 80) != t {
		return ""
	}
	return t
}
