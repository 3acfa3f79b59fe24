package api

import "net/http"

// Route is one HTTP route. The table is what the router, the Allow header, the OpenAPI document and /docs are made from.
type Route struct {
	Method, Path string
	Handle       http.HandlerFunc
	// Says describes the route; one without it is not part of the interface.
	Says *Operation
}

// Get is a route of GET.
func Get(path string, handle http.HandlerFunc, says *Operation) Route {
	return Route{http.MethodGet, path, handle, says}
}

// Post is a route of POST.
func Post(path string, handle http.HandlerFunc, says *Operation) Route {
	return Route{http.MethodPost, path, handle, says}
}

// Delete is a route of DELETE.
func Delete(path string, handle http.HandlerFunc, says *Operation) Route {
	return Route{http.MethodDelete, path, handle, says}
}

// Put is a route of PUT.
func Put(path string, handle http.HandlerFunc, says *Operation) Route {
	return Route{http.MethodPut, path, handle, says}
}

// Head is a route of HEAD.
func Head(path string, handle http.HandlerFunc, says *Operation) Route {
	return Route{http.MethodHead, path, handle, says}
}
