// Command coredns is CoreDNS with just the plugins that a cluster without a way out needs. With all of
// CoreDNS's plugins the build would take far longer.
//
// Names of Services and Pods come from the API server; any other name does not exist, and is best said not to: a
// refused question counts as a failure that may pass, and is asked again. CoreDNS asks template before kubernetes,
// whatever their order in the Corefile, so the rest of the world needs a server block of its own:
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
