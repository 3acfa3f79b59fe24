// Package docker makes sandboxes as containers of a Docker Engine, here or on another machine.
//
// A sandbox is one container without a network whose first process is sandboxd. Its root file system is read-only; what can be written to is in
// memory, with a size. What a sandbox needs beside its image (sandboxd, accounts, mount points) is added to the image once, as a layer of an
// image of the driver's own; nothing of this is a file of the task.
//
// The control connection takes one of two ways. Where the daemon sees the files of this machine, sandboxd listens on a socket in a folder of the
// data folder, which is mounted where root alone can enter. Elsewhere each connection is an exec of `sandboxd attach`, whose streams the API
// carries.
//
// The daemon keeps all state: a container has the sandbox's id in its name and what else is known of it in its labels. Names and labels carry
// the owner, which is the data folder of a host, so that hosts may share a daemon.
package docker
