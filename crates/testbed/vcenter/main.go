// Command vcenter is vCenter's simulator, its command line, and the installer's reader of credentials files, for the
// tests.
//
// The command modules of the first two cannot be had at a new version, but all they do is in packages of govmomi. The
// name it is called by chooses the program, so symlinks named vcsim, govc and readini stand beside it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/vmware/govmomi/cli"

	_ "github.com/vmware/govmomi/cli/about"
	_ "github.com/vmware/govmomi/cli/object"
	_ "github.com/vmware/govmomi/cli/permissions"
	_ "github.com/vmware/govmomi/cli/role"
	_ "github.com/vmware/govmomi/cli/session"
	_ "github.com/vmware/govmomi/cli/sso/user"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "govc":
		os.Exit(cli.Run(os.Args[1:]))
	case "vcsim":
		end(serve(os.Args[1:]))
	case "readini":
		end(readIni())
	default:
		fmt.Fprintln(os.Stderr, "call this program by one of these names: govc, readini, vcsim")
		os.Exit(2)
	}
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
