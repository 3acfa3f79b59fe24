// Package files moves files in and out of a sandbox, while hostile processes change the same folders. Names are looked up one
// component at a time and never through a link below the folders that processes can write. What is packed or unpacked is
// bounded by what storing it costs.
package files
