// Package npz writes archives of arrays that numpy.load reads, without pickle.
//
// It is small enough to own: what Go has for the format was last released in 2022, pads the header otherwise than numpy asks,
// and brings a library for linear algebra along. The format is that of numpy.lib.format, version 1.0; entries are not compressed,
// as numpy.savez has them.
package npz
