// Package filetool reads, writes, edits and lists files for the tools of a policy. It runs inside the sandbox as a process of the
// agent's user, started like any command: it can do what that user can do, and follows links as that user would.
package filetool
