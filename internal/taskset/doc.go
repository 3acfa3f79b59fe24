// Package taskset reads task sets: ordered, named collections of tasks. A set is a folder of task files in
// YAML, a file of JSON lines, or a folder of Harbor tasks. Open finds the tasks; Task reads one of them, so
// that a broken task does not hide the others.
//
// Task files are not trusted. Sizes, numbers and depths are bounded, and no link leads out of the set's folder.
package taskset
