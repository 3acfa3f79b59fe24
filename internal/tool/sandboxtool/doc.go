// Package sandboxtool has the tools that work in a sandbox: shells, files, search. They run as the agent's
// user, in the workdir, each call once by its id.
package sandboxtool
