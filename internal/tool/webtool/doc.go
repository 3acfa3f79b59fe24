// Package webtool has the tools web_search, which queries a search endpoint of the operator, and
// web_extract, which reads pages as text.
package webtool
