// What each privilege is called when a role is written as rules: one resource and the verbs on it. Every privilege has
// exactly one line and no two lines share a verb of a resource, so both notations say the same.

const READ = ["get", "list", "watch"];
const CHANGE = ["update", "patch"];
const MAKE = ["create", "delete"];
const WRITE = ["create", "update", "patch", "delete"];
const DO = ["create"];

interface RuleAtom {
  readonly privilege: string;
  readonly resource: string;
  readonly verbs: readonly string[];
}

const TABLE: readonly (readonly [privilege: string, resource: string, verbs: readonly string[]])[] = [
  ["Datastore.Audit", "storages", READ],
  ["Datastore.Allocate", "storages", WRITE],
  ["Datastore.AllocateSpace", "storages/volumes", WRITE],
  ["Datastore.AllocateTemplate", "storages/templates", WRITE],
  ["Group.Allocate", "groups", WRITE],
  ["Mapping.Audit", "mappings", READ],
  ["Mapping.Modify", "mappings", WRITE],
  ["Mapping.Use", "mappings/use", DO],
  ["Permissions.Modify", "bindings", WRITE],
  ["Pool.Audit", "tenants", READ],
  ["Pool.Allocate", "tenants", WRITE],
  ["Realm.Allocate", "realms", WRITE],
  ["Realm.AllocateUser", "users", MAKE],
  ["User.Modify", "users", CHANGE],
  ["SDN.Audit", "networks", READ],
  ["SDN.Allocate", "networks", WRITE],
  ["SDN.Use", "networks/use", DO],
  ["Sys.Audit", "nodes", READ],
  ["Sys.Modify", "nodes", WRITE],
  ["Sys.AccessNetwork", "nodes/network-access", DO],
  ["Sys.Console", "nodes/console", DO],
  ["Sys.Incoming", "nodes/incoming", DO],
  ["Sys.PowerMgmt", "nodes/power", CHANGE],
  ["Sys.Syslog", "nodes/log", ["get"]],
  ["Tenant.Audit", "tenants/access", READ],
  ["Tenant.Bindings", "tenants/bindings", WRITE],
  ["Tenant.Users", "tenants/users", WRITE],
  ["VC.Audit", "virtualclusters", READ],
  ["VC.Allocate", "virtualclusters", MAKE],
  ["VC.Config", "virtualclusters", CHANGE],
  ["VC.Backup", "virtualclusters/backup", DO],
  ["VC.Kubeconfig", "virtualclusters/kubeconfig", ["get"]],
  ["VC.Power", "virtualclusters/power", CHANGE],
  ["VM.Audit", "virtualmachines", READ],
  ["VM.Allocate", "virtualmachines", MAKE],
  ["VM.Config.CDROM", "virtualmachines/cdrom", CHANGE],
  ["VM.Config.CPU", "virtualmachines/cpu", CHANGE],
  ["VM.Config.Cloudinit", "virtualmachines/cloudinit", CHANGE],
  ["VM.Config.Disk", "virtualmachines/disks", CHANGE],
  ["VM.Config.HWType", "virtualmachines/hardware", CHANGE],
  ["VM.Config.Memory", "virtualmachines/memory", CHANGE],
  ["VM.Config.Network", "virtualmachines/networks", CHANGE],
  ["VM.Config.Options", "virtualmachines/options", CHANGE],
  ["VM.Backup", "virtualmachines/backup", DO],
  ["VM.Clone", "virtualmachines/clone", DO],
  ["VM.Console", "virtualmachines/console", DO],
  ["VM.GuestAgent.Audit", "virtualmachines/agent", ["get"]],
  ["VM.GuestAgent.Unrestricted", "virtualmachines/agent", DO],
  ["VM.GuestAgent.FileRead", "virtualmachines/agent-files", ["get"]],
  ["VM.GuestAgent.FileWrite", "virtualmachines/agent-files", CHANGE],
  ["VM.GuestAgent.FileSystemMgmt", "virtualmachines/agent-filesystems", CHANGE],
  ["VM.Migrate", "virtualmachines/migrate", DO],
  ["VM.PowerMgmt", "virtualmachines/power", CHANGE],
  ["VM.Replicate", "virtualmachines/replicate", DO],
  ["VM.Snapshot", "virtualmachines/snapshots", MAKE],
  ["VM.Snapshot.Rollback", "virtualmachines/snapshots", CHANGE],
];

export const RULE_ATOMS: readonly RuleAtom[] = TABLE.map(([privilege, resource, verbs]) => ({
  privilege,
  resource,
  verbs,
}));

/** In this order rules show verbs. */
export const VERBS: readonly string[] = [...READ, "create", ...CHANGE, "delete"];

export const RULE_API_GROUP = "gpve.io";

/** Short names and PVE's names of resources. */
export const RESOURCE_ALIASES: Readonly<Record<string, string>> = {
  acl: "bindings",
  acls: "bindings",
  pools: "tenants",
  rolebindings: "bindings",
  vclusters: "virtualclusters",
  vms: "virtualmachines",
};

/** Verbs on a whole resource that several privileges make up. */
export const WHOLE_VERBS: readonly {
  readonly resource: string;
  readonly verbs: readonly string[];
  readonly within: RegExp;
}[] = [{ resource: "virtualmachines", verbs: CHANGE, within: /^VM\.Config\./ }];

/** Kinds that have no privilege of their own, and what decides about them instead. */
export const WITHOUT_PRIVILEGE: Readonly<Record<string, string>> = {
  events: "whoever may see an object sees its events",
  tasks: "a task is seen by who began it, and by who has 'get' on nodes",
  roles: "everybody sees roles; 'update' on nodes, on the path /access, changes them",
  resourcequotas: "whoever may 'get' tenants sees quotas; 'update' on the tenants above changes them",
  containers: "this version has no privileges for containers alone: 'virtualmachines' stands for all guests",
};

/** Where a role is bound so that it is about single objects. */
export const PATH_OF_ONE: Readonly<Record<string, string>> = {
  mappings: "/mapping/<type>/<name>",
  networks: "/sdn/zones/localnetwork/<name>",
  nodes: "/nodes/<name>",
  realms: "/access/realm/<name>",
  storages: "/storage/<name>",
  tenants: "/pool/<name>",
  virtualclusters: "/pool/<tenant>",
  virtualmachines: "/vms/<vmid>",
};
