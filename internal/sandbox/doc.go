// Package sandbox is the portable sandbox, independent of the provider. A driver creates and reaches a
// sandbox. Everything inside it (processes, files, the model channel) is a request to its sandboxd,
// implemented here once.
//
// Errors carry fault kinds. fault.SandboxLost means that the sandbox is gone for good and may be replaced.
// A kind that sandboxd sends (NotFound, Invalid, OutOfDisk, …) is kept. A canceled context is a
// fault.Unavailable that unwraps to the context's error, since it says nothing about the sandbox.
package sandbox
