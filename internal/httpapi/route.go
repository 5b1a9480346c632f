package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
)

// route is one row of the table of routes.
type route struct {
	name         string // of the method of call that serves it
	method, path string // as of http.ServeMux
	// right is what the caller's token must allow. It is empty for a route that needs no token.
	right client.Right
	about string // one line for the OpenAPI document
	// status is that of a response without an error.
	status int
	// in is a struct: see decode. out is nil if the response has no JSON, and event if it is no stream.
	in, out, event reflect.Type
	// media is the content type of a response that is neither.
	media string
	serve func(*call) error
}

// call is a request of a caller who may make it.
type call struct {
	*client.Client // of the caller's tenant
	server         *Server
	w              http.ResponseWriter
	r              *http.Request
	status         int          // of a response without an error
	token          client.Token // of the caller; zero for a route that needs none
}

// reply returns a route that answers with the result of do as JSON.
func reply[In, Out any](method, path string, right client.Right, about string,
	do func(*call, context.Context, In) (Out, error)) route {
	return route{name: nameOf(do), method: method, path: path, right: right, about: about, status: http.StatusOK,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), serve: func(c *call) error {
			in, err := input[In](c)
			if err != nil {
				return err
			}
			out, err := do(c, c.r.Context(), in)
			if err != nil {
				return err
			}
			return writeJSON(c.w, c.status, out)
		}}
}

// write returns a route whose do writes the response itself.
func write[In any](method, path string, right client.Right, about string, do func(*call, context.Context, In) error,
) route {
	return route{name: nameOf(do), method: method, path: path, right: right, about: about, status: http.StatusOK,
		in: reflect.TypeFor[In](), serve: func(c *call) error {
			in, err := input[In](c)
			if err != nil {
				return err
			}
			return do(c, c.r.Context(), in)
		}}
}

// accepted returns the route with the status 202: what it starts goes on after the response.
func (r route) accepted() route { return r.with(http.StatusAccepted) }

// created returns the route with the status 201.
func (r route) created() route { return r.with(http.StatusCreated) }

// streams returns the route with a response of server-sent events, whose data are of the type of event.
func (r route) streams(event any) route {
	r.event = reflect.TypeOf(event)
	return r
}

// returns returns the route with a response of the type of out.
func (r route) returns(out any) route {
	r.out = reflect.TypeOf(out)
	return r
}

// of returns the route with a response of another content type than JSON.
func (r route) of(media string) route {
	r.media = media
	return r
}

func (r route) with(status int) route {
	r.status = status
	return r
}

// input returns the input of a call. All of the request is read then: its deadline must not end what takes longer.
func input[In any](c *call) (in In, err error) {
	err = decode(c.r, &in)
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	return in, err
}

// nameOf returns the name of a method of call.
func nameOf(method any) string {
	name := runtime.FuncForPC(reflect.ValueOf(method).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// none is the input of a route without one.
type none struct{}
