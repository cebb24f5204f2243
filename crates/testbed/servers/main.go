// Command servers is the real Kubernetes control plane in one program, for the tests.
//
// One program instead of five saves most of the link time and disk, because they share almost
// all of their code. The name it is called by chooses the server, so symlinks named after the
// official programs stand beside it and a directory of them looks like an official release.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	// Registers the client-go metrics, so that /metrics of each server is as in a release.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubectl":                 func() { os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand())) },
}

func main() {
	// kubectl and the servers read os.Args themselves, so "servers kubectl get ns" drops the
	// first word and goes on as "kubectl get ns".
	if _, known := programs[filepath.Base(os.Args[0])]; !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
	}
	program, known := programs[filepath.Base(os.Args[0])]
	if !known {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "call this program by one of these names: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	program()
}
