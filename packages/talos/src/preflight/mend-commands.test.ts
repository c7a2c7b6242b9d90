import { expect, test } from "vitest";
import { error } from "./finding-report.ts";
import { mendCommands } from "./mend-commands.ts";

test("privileges are those of one role, which the token and its user get where they lack some", () => {
  const found = [
    error("privilege-missing", "/vms", "missing: VM.Clone, VM.Audit"),
    error("privilege-missing", "/storage/local", "missing: Datastore.Audit"),
    // The platform said no to a question itself: nobody knows what was missing.
    error("privilege-missing", "pve", "https://pve:8006: Permission check failed"),
  ];
  // An ACL on /vms takes the place of what is inherited there: the role has all that a deployer needs.
  const privileges =
    "Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit SDN.Use Sys.AccessNetwork Sys.Audit VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.Console VM.PowerMgmt";
  expect(mendCommands(found)).toEqual([
    "TOKEN='USER@REALM!NAME'  # what tokenRef leads to, without =SECRET",
    `pveum role add TalosDeployer --privs '${privileges}'`,
    'pveum acl modify /vms --tokens "$TOKEN" --users "${TOKEN%%!*}" --roles TalosDeployer',
    'pveum acl modify /storage/local --tokens "$TOKEN" --users "${TOKEN%%!*}" --roles TalosDeployer',
  ]);
});

test("who needs devices of a node gets a role that may use them", () => {
  const [, role, grant] = mendCommands([
    error("privilege-missing", "/mapping/pci/gpu0", "missing: Mapping.Use"),
  ]);
  expect(role).toMatch(/^pveum role add TalosDeployer .*Mapping\.Use'$/);
  expect(grant).toMatch(/^pveum acl modify \/mapping\/pci\/gpu0 /);
});

test("a storage gets what it lacks besides what it takes, once for all nodes", () => {
  const found = ["pve1", "pve2"].map((node) =>
    error("storage-content", `local on ${node}`, "takes iso, vztmpl; import and images is missing"),
  );
  expect(mendCommands([...found, error("pool-missing", "k8s", "there: none")])).toEqual([
    "pvesm set local --content iso,vztmpl,import,images",
    "pveum pool add k8s",
  ]);
});

test("what cannot be mended by a command has none", () => {
  expect(mendCommands([error("bridge-missing", "vmbr0 on pve1", "there: none")])).toEqual([]);
});
