// Package sandbox is the portable sandbox: what the rest of rolloutd sees, whatever provider made it. A driver makes and
// reaches a sandbox; everything done inside it (processes, files, the model channel) is a request to the sandboxd in it, and
// that code is here, once.
//
// Errors carry fault kinds. fault.SandboxLost means that the sandbox is gone for good: another one can take its place, this one
// never comes back. A kind that sandboxd itself sends (NotFound, Invalid, OutOfDisk, …) is kept. A cancelled context is a
// fault.Unavailable that still unwraps to the context's error: it says nothing about the sandbox.
package sandbox
