// Privileges and roles that PVE does not have. They live among PVE's own: lists of roles and permissions show them as
// names that its clients pass on without looking at.
import facts from "@gpve/contracts/gen/roles.json" with { type: "json" };

/** What each is for; all of them count on /pool/<tenant>, and so on what lies below it. */
export const OWN_PRIVILEGES: Readonly<Record<string, string>> = {
  "Tenant.Audit": "See the users of a tenant and who has which role inside it.",
  "Tenant.Bindings": "Give and take roles inside a tenant, never more than one holds there.",
  "Tenant.Users": "Make, change and delete the users of a tenant and their tokens.",
  "VC.Allocate": "Make and delete virtual clusters.",
  "VC.Audit": "See virtual clusters.",
  "VC.Backup": "Back virtual clusters up and restore them.",
  "VC.Config": "Change, scale and upgrade virtual clusters.",
  "VC.Kubeconfig": "Get the credentials of a virtual cluster's administrator.",
  "VC.Power": "Let virtual clusters sleep and wake them.",
};

const own = Object.keys(OWN_PRIVILEGES);
const all = [...facts.privileges, ...own];
const named = (pattern: RegExp): string[] => all.filter((name) => pattern.test(name));

/** Reading alone. */
const READ = named(/\.Audit$/);
/** A place for disks and a bridge, on storages and networks that are given to the tenant. */
const PLACE = ["Datastore.AllocateSpace", "Datastore.Audit", "Pool.Audit", "SDN.Audit", "SDN.Use"];
const RUN_VMS = named(/^VM\./).filter((name) => name !== "VM.Replicate");

interface OwnRole {
  readonly meaning: string;
  readonly privileges: readonly string[];
}

/**
 * Who administers a tenant has no Permissions.Modify, Datastore.Allocate, Sys.Modify or Realm privilege: storages and
 * bridges are shared with others, and what one does not hold, one cannot give away.
 */
export const OWN_ROLES: Readonly<Record<string, OwnRole>> = {
  "cluster-admin": { meaning: "Everything, everywhere below the path it is given on.", privileges: all },
  "tenant-admin": {
    meaning: "Everything inside one tenant: its guests, clusters, users, roles and the tenants below.",
    privileges: [
      ...READ,
      ...PLACE,
      "Datastore.AllocateTemplate",
      "Mapping.Use",
      "Pool.Allocate",
      ...named(/^(?:VM|VC|Tenant)\./),
    ],
  },
  "vm-operator": {
    meaning: "The life of VMs: make, change, start, stop, save, move and delete them.",
    privileges: [...PLACE, ...RUN_VMS],
  },
  "vc-operator": {
    meaning: "The life of virtual clusters: make, change, let sleep, save and delete them.",
    privileges: [...PLACE, ...named(/^VC\./)],
  },
  viewer: { meaning: "Sees everything and changes nothing.", privileges: READ },
};
