// Package catalog turns what a client says about its model (both generations of arguments) into one resolved endpoint:
// base URL, name, key, and what the endpoint can be asked for. Each field is taken from the argument, else from the
// server's environment, else from the catalogue's default.
package catalog
