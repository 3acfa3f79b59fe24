// Package httpio reads the bodies of requests within bounds, and writes answers and errors.
package httpio
