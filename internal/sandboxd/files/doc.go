// Package files moves files in and out of a sandbox while hostile processes change the same folders. Below
// the folders that processes can write, paths are walked one component at a time and links are not
// followed. The storage cost of packed and unpacked trees is bounded.
package files
