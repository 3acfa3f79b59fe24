// Package rawjson reads and edits JSON by bytes, once, left to right. It changes single members of an
// object and leaves every other byte alone.
//
// It is lenient where model servers are sloppy (NaN and Infinity as numbers, invalid UTF-8) and strict
// where a mistake would misalign tokens.
package rawjson
