// Package image keeps OCI images on this machine without a container engine.
//
// A Store is a folder. It has each layer once, unpacked, under the digest of its uncompressed content, and
// a record for each image that names its layers and what its configuration says. Images come from a
// registry, from an archive (docker save, or an OCI layout in a tar file), from an OCI layout folder, or
// from the folder of a root file system.
//
// Layers are in the form that overlayfs reads: a whiteout is a character device 0/0, an opaque directory
// has the attribute trusted.overlay.opaque, or user.overlay.opaque where the store belongs to an ordinary
// user. Mount them read-only, without set-user-id and without devices: their files are not trusted.
//
// Several processes may share a store. A Use holds its image for as long as its lock is open; removal and
// collection skip the image. A crash leaves no partial layer: layers are unpacked under another name,
// synced, and renamed.
package image
