import { expect, it } from "vitest";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { stateStorage } from "./ram-volume.ts";

const known: Readonly<Record<string, Pick<StorageDefinition, "type" | "options">>> = {
  dir1: { type: "dir", options: { path: "/a" } },
  dir2: { type: "dir", options: { path: "/b" } },
  lvm1: { type: "lvm", options: {} },
  lvm9: { type: "lvm", options: {} },
  nfs1: { type: "nfs", options: { path: "/c" } },
  rbd1: { type: "rbd", options: {} },
};
const storages = {
  definition: (storage: string) => ({ storage, ...known[storage] }) as StorageDefinition,
};

it.each([
  [{}, "local"],
  [{ ide2: "dir1:iso/x.iso,media=cdrom", scsi0: "/dev/sdx" }, "local"],
  [{ scsi0: "lvm1:x", vmstatestorage: "elsewhere" }, "elsewhere"],
  [{ scsi0: "lvm9:x", scsi1: "lvm1:y" }, "lvm1"],
  [{ scsi0: "dir1:1/x.raw", scsi1: "lvm1:y" }, "dir1"],
  [{ scsi0: "dir1:1/x.raw", scsi1: "dir2:1/y.raw" }, "dir2"],
  [{ scsi0: "dir1:1/x.raw", scsi1: "rbd1:y" }, "rbd1"],
  [{ scsi0: "rbd1:x", scsi1: "nfs1:1/y.raw" }, "nfs1"],
])("RAM of a VM with %j goes to %s", (values, storage) => {
  expect(stateStorage(storages, values)).toBe(storage);
});
