// Package docker runs sandboxes as containers of a Docker Engine, here or on another machine.
//
// A sandbox is one container without a network whose first process is sandboxd. Its root file system is
// read-only; writable folders are in memory and have a size. Files that a sandbox needs besides its image
// (sandboxd, accounts, mount points) are added once, as a layer of an image of the driver's own; the task
// does not see them as its files.
//
// There are two kinds of control connections. If the daemon sees the files of this machine, sandboxd
// listens on a socket in a data folder, which is mounted where only root can enter. Otherwise each
// connection is an exec of `sandboxd attach`, whose streams the API carries.
//
// The daemon keeps all state: a container has the sandbox's id in its name and the rest in its labels.
// Names and labels include the owner, the data folder of a host, so that hosts may share a daemon.
package docker
