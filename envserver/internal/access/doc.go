// Package access is who a request comes from and which rollouts its caller may see and end.
package access
