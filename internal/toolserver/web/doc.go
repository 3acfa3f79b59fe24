// Package web has the tools web_search, which asks a search endpoint of the operator's, and web_extract, which reads pages as text.
package web
