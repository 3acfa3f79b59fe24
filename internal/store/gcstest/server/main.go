// Command server serves the API of Google Cloud Storage on a unix socket, from memory. It is a module of
// its own, so that nothing else compiles it.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	socket := flag.String("socket", "", "path of the unix socket to listen on")
	address := flag.String("address", "", "host and port where clients reach the server")
	bucket := flag.String("bucket", "", "name of the bucket to make")
	flag.Parse()
	if err := serve(*socket, *address, *bucket); err != nil {
		log.Fatal(err)
	}
}

func serve(socket, address, bucket string) error {
	fake, err := fakestorage.NewServerWithOptions(
		fakestorage.Options{NoListener: true, ExternalURL: "http://" + address, PublicHost: address},
	)
	if err != nil {
		return err
	}
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return http.Serve(l, fake.HTTPHandler())
}
