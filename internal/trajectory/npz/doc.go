// Package npz writes archives of arrays that numpy.load reads, without pickle.
//
// The package exists because the known Go library for the format was last released in 2022, pads the header differently from numpy, and depends
// on a library for linear algebra. The format is that of numpy.lib.format, version 1.0; entries are not compressed, as with numpy.savez.
package npz
