// Package api describes the HTTP routes: their table, the OpenAPI document and the page made from it, and
// the schemas of the wire types.
package api
