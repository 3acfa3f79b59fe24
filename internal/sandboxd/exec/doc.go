// Package exec runs each command once by its call id.
package exec
