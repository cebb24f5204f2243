package main

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// guard answers from the simulator's own roles and permissions. The simulator itself grants everything to everybody.
//
// As in vCenter: the nearest of the entity and its ancestors that has an entry for the user decides alone; an
// ancestor's entry counts only if it propagates; no entry at all is no permission.
type guard struct {
	*simulator.AuthorizationManager
	administrator string
	permissions   map[types.ManagedObjectReference][]types.Permission
	dropSessions  int
}

// index hides what the user may not see.
type index struct {
	*simulator.SearchIndex
	guard *guard
}

// newGuard takes the place of the simulator's own objects.
func newGuard(registry *simulator.Registry, administrator string, with settings) *guard {
	content := registry.Get(types.ManagedObjectReference{Type: "ServiceInstance", Value: "ServiceInstance"}).(*simulator.ServiceInstance).Content
	manager := registry.Get(*content.AuthorizationManager).(*simulator.AuthorizationManager)
	// A vCenter tells which privileges there are; the simulator knows them only as the administrator's.
	for _, id := range object.AuthorizationRoleList(manager.RoleList).ByName("Admin").Privilege {
		group, name, _ := cutLast(id)
		manager.PrivilegeList = append(manager.PrivilegeList, types.AuthorizationPrivilege{PrivId: id, Name: name, PrivGroupName: group})
	}
	g := &guard{
		AuthorizationManager: manager,
		administrator:        principal(administrator),
		permissions:          map[types.ManagedObjectReference][]types.Permission{},
		dropSessions:         with.DropSessions,
	}
	registry.Put(g)
	registry.Put(&index{SearchIndex: registry.SearchIndex(), guard: g})
	return g
}

func cutLast(id string) (string, string, bool) {
	at := strings.LastIndex(id, ".")
	return id[:at], id[at+1:], true
}

// lostSession says that a question for privileges finds its session gone.
func (g *guard) lostSession(method *simulator.Method) types.BaseMethodFault {
	if method.Name == "FetchUserPrivilegeOnEntities" && g.dropSessions > 0 {
		g.dropSessions--
		return &types.NotAuthenticated{}
	}
	return nil
}

func (g *guard) SetEntityPermissions(ctx *simulator.Context, req *types.SetEntityPermissions) soap.HasFault {
	for _, added := range req.Permission {
		entity := req.Entity
		added.Entity = &entity
		kept := slices.DeleteFunc(g.permissions[entity], func(old types.Permission) bool {
			return principal(old.Principal) == principal(added.Principal) && old.Group == added.Group
		})
		g.permissions[entity] = append(kept, added)
		tell("permission %s role %d propagate %v on %s", added.Principal, added.RoleId, added.Propagate, entity.Value)
	}
	return &methods.SetEntityPermissionsBody{Res: &types.SetEntityPermissionsResponse{}}
}

func (g *guard) RemoveEntityPermission(ctx *simulator.Context, req *types.RemoveEntityPermission) soap.HasFault {
	g.permissions[req.Entity] = slices.DeleteFunc(g.permissions[req.Entity], func(old types.Permission) bool {
		return principal(old.Principal) == principal(req.User) && old.Group == req.IsGroup
	})
	return &methods.RemoveEntityPermissionBody{Res: &types.RemoveEntityPermissionResponse{}}
}

func (g *guard) RetrieveEntityPermissions(ctx *simulator.Context, req *types.RetrieveEntityPermissions) soap.HasFault {
	found := slices.Clone(g.permissions[req.Entity])
	if req.Inherited {
		for at := parent(ctx, req.Entity); at != nil; at = parent(ctx, *at) {
			for _, one := range g.permissions[*at] {
				if one.Propagate {
					found = append(found, one)
				}
			}
		}
	}
	return &methods.RetrieveEntityPermissionsBody{Res: &types.RetrieveEntityPermissionsResponse{Returnval: found}}
}

func (g *guard) FetchUserPrivilegeOnEntities(ctx *simulator.Context, req *types.FetchUserPrivilegeOnEntities) soap.HasFault {
	var results []types.UserPrivilegeResult
	for _, entity := range req.Entities {
		held := g.held(ctx, req.UserName, entity)
		if !slices.Contains(held, "System.View") {
			fault := &types.NoPermission{Object: &entity, PrivilegeId: "System.View"}
			return &methods.FetchUserPrivilegeOnEntitiesBody{Fault_: simulator.Fault("", fault)}
		}
		results = append(results, types.UserPrivilegeResult{Entity: entity, Privileges: held})
	}
	return &methods.FetchUserPrivilegeOnEntitiesBody{Res: &types.FetchUserPrivilegeOnEntitiesResponse{Returnval: results}}
}

func (i *index) FindByInventoryPath(ctx *simulator.Context, req *types.FindByInventoryPath) soap.HasFault {
	found := i.SearchIndex.FindByInventoryPath(ctx, req)
	body, ok := found.(*methods.FindByInventoryPathBody)
	if !ok || body.Res == nil || body.Res.Returnval == nil {
		return found
	}
	if !slices.Contains(i.guard.held(ctx, ctx.Session.UserName, *body.Res.Returnval), "System.View") {
		body.Res.Returnval = nil
	}
	return found
}

func (g *guard) held(ctx *simulator.Context, user string, entity types.ManagedObjectReference) []string {
	if principal(user) == g.administrator {
		return object.AuthorizationRoleList(g.RoleList).ByName("Admin").Privilege
	}
	for at := &entity; at != nil; at = parent(ctx, *at) {
		for _, one := range g.permissions[*at] {
			if principal(one.Principal) == principal(user) && (one.Propagate || *at == entity) {
				return object.AuthorizationRoleList(g.RoleList).ById(one.RoleId).Privilege
			}
		}
	}
	return nil
}

func parent(ctx *simulator.Context, of types.ManagedObjectReference) *types.ManagedObjectReference {
	if entity, ok := ctx.Map.Get(of).(mo.Entity); ok {
		return entity.Entity().Parent
	}
	return nil
}

// principal is one spelling of DOMAIN\user, user@domain and user.
func principal(name string) string {
	name = strings.ToLower(name)
	if domain, user, found := strings.Cut(name, `\`); found {
		return user + "@" + domain
	}
	if !strings.Contains(name, "@") {
		return name + "@vsphere.local"
	}
	return name
}
