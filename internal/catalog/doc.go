// Package catalog resolves a client's model arguments (of both generations) to one endpoint: base URL,
// name, key, and capabilities. Each field comes from the argument, else from the server's environment, else
// from the catalogue's default.
package catalog
