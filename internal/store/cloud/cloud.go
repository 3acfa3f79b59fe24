// Package cloud compiles the drivers of buckets into a program that imports it: store.Open then takes the
// URLs s3://, gs:// and azblob://. The tests of other packages do not link them.
package cloud

import (
	_ "gocloud.dev/blob/azureblob" // azblob://container
	_ "gocloud.dev/blob/gcsblob"   // gs://bucket
	_ "gocloud.dev/blob/s3blob"    // s3://bucket
)
