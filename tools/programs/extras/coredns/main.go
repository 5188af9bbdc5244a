// Command coredns is CoreDNS with only the plugins that a cluster without internet access needs. A build with all plugins
// takes far longer.
//
// The plugin kubernetes resolves the names of Services and Pods. Every other name must get NXDOMAIN, because clients
// retry after REFUSED. CoreDNS runs template before kubernetes, whatever their order in the Corefile, so template needs
// a server block of its own:
//
//	cluster.local in-addr.arpa ip6.arpa {
//		kubernetes
//	}
//	. {
//		template ANY ANY {
//			rcode NXDOMAIN
//		}
//	}
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"

	"github.com/coredns/coredns/coremain"
)

func main() {
	coremain.Run()
}
