// Package filetool reads, writes, edits and lists files for the tools of a policy. It runs inside the
// sandbox as an ordinary process of the agent's user, with that user's rights, and follows links.
package filetool
