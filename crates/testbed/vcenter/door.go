package main

import (
	"sync"

	"github.com/vmware/govmomi/vim25/types"
)

// door is who may log in: the users of the settings, then those made at run time. It counts failures as a vCenter does.
type door struct {
	settings
	next   func(*types.Login) bool
	mutex  sync.Mutex
	failed map[string]int
}

func (d *door) admits(req *types.Login) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name := principal(req.UserName)
	if d.LockOutAfter > 0 && d.failed[name] >= d.LockOutAfter {
		tell("login %s locked", req.UserName)
		return false
	}
	if d.knows(req) || (d.next != nil && d.next(req)) {
		d.failed[name] = 0
		tell("login %s accepted", req.UserName)
		return true
	}
	d.failed[name]++
	tell("login %s refused", req.UserName)
	return false
}

func (d *door) knows(req *types.Login) bool {
	for _, user := range d.Users {
		if principal(user.Name) == principal(req.UserName) && user.Password == req.Password {
			return true
		}
	}
	return false
}
