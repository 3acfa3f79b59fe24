package devserver

import "fmt"

// InUseError means that another process serves this database.
type InUseError struct {
	Database string

	// from the lock file; may be empty
	Owner string
}

func (e *InUseError) Error() string {
	owner := "another process"
	if e.Owner != "" {
		owner = e.Owner
	}

	return fmt.Sprintf("%s is in use by %s; stop that one first, or give this one its own folder with --data",
		e.Database, owner)
}

// SchemaError means that the folder holds a database that this build cannot read.
type SchemaError struct {
	File string

	// the schema version of File
	Found string

	// the schema version of this build
	Want string
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s has schema %s, and this build reads %s: run the newer rolloutd-dev that wrote it, "+
		"or start with another folder (--data); nothing was changed", e.File, e.Found, e.Want)
}
