// Command registry is the distribution registry with only the in-memory storage driver and, for passwords, htpasswd. Its argument is
// the path of a configuration file.
package main

import (
	"context"
	"log"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: registry CONFIGURATION")
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config, err := configuration.Parse(file)
	if err != nil {
		log.Fatal(err)
	}
	server, err := registry.NewRegistry(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ListenAndServe())
}
