package api

import "net/http"

// Route is one HTTP route. The router, the Allow header, the OpenAPI document and /docs are made from the
// table of routes.
type Route struct {
	Method, Path string
	Handle       http.HandlerFunc
	// Operation describes the route; nil: the route is not part of the documented interface.
	Operation *Operation
}

// Get is a route of GET.
func Get(path string, handle http.HandlerFunc, operation *Operation) Route {
	return Route{http.MethodGet, path, handle, operation}
}

// Post is a route of POST.
func Post(path string, handle http.HandlerFunc, operation *Operation) Route {
	return Route{http.MethodPost, path, handle, operation}
}

// Delete is a route of DELETE.
func Delete(path string, handle http.HandlerFunc, operation *Operation) Route {
	return Route{http.MethodDelete, path, handle, operation}
}

// Put is a route of PUT.
func Put(path string, handle http.HandlerFunc, operation *Operation) Route {
	return Route{http.MethodPut, path, handle, operation}
}

// Head is a route of HEAD.
func Head(path string, handle http.HandlerFunc, operation *Operation) Route {
	return Route{http.MethodHead, path, handle, operation}
}
