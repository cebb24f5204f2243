package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	_ "github.com/vmware/govmomi/lookup/simulator"
	_ "github.com/vmware/govmomi/ssoadmin/simulator"
	_ "github.com/vmware/govmomi/sts/simulator"
)

// settings are read from a file: passwords do not belong into arguments.
type settings struct {
	Listen string `json:"listen"`
	Cert   string `json:"cert"`
	Key    string `json:"key"`
	// The first one is the administrator.
	Users []login `json:"users"`
	// Failed logins of one user after which it is locked out; 0 is never.
	LockOutAfter int `json:"lockOutAfter"`
	// How long each answer to FetchUserPrivilegeOnEntities takes.
	SlowMillis int `json:"slowMillis"`
	// The session is dropped before so many calls of FetchUserPrivilegeOnEntities.
	DropSessions int `json:"dropSessions"`
}

type login struct {
	Name     string `json:"name"`
	Password string `json:"password"`
}

func serve(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: vcsim SETTINGS.json")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var with settings
	if err := json.Unmarshal(text, &with); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(with.Cert, with.Key)
	if err != nil {
		return err
	}
	model := simulator.VPX()
	if err := model.Create(); err != nil {
		return err
	}
	admin := with.Users[0]
	service := model.Service
	service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	service.RegisterEndpoints = true
	service.Listen = &url.URL{Host: with.Listen, User: url.UserPassword(admin.Name, admin.Password)}
	registry := service.Context.Map
	server := service.NewServer()
	defer server.Close()

	door := &door{settings: with, next: registry.SessionManager().ValidLogin, failed: map[string]int{}}
	registry.SessionManager().ValidLogin = door.admits
	guard := newGuard(registry, admin.Name, with)
	registry.Handler = func(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		if method.Name == "Logout" && ctx.Session != nil {
			tell("logout %s", ctx.Session.UserName)
		}
		if method.Name == "FetchUserPrivilegeOnEntities" {
			time.Sleep(time.Duration(with.SlowMillis) * time.Millisecond)
		}
		return nil, guard.lostSession(method)
	}
	tell("listening")
	select {}
}

// tell writes a line that a test reads.
func tell(format string, words ...any) {
	fmt.Printf("journal: "+format+"\n", words...)
}
