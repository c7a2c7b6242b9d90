// A load balancer's machine: haproxy before the API servers of a cluster, and nothing to log in to.
import type { Exec } from "@gpve/kit/exec.ts";
import type { ImageRecipe } from "../image-recipe.ts";
import { memoryGuestRecipe } from "../memory-guest.ts";
import { memoryRoot } from "../memory-root.ts";
import { GUEST_MODULES } from "../tiny/tiny-root.ts";
import { LB_SCRIPTS } from "./lb-scripts.ts";

const PROGRAMS = ["usr/sbin/qemu-ga", "usr/sbin/haproxy"];
const FOLDERS = ["dev", "proc", "sys", "run", "tmp", "mnt", "root", "home", "var", "www", "etc/acpi"];

export function lbRecipe(exec: Exec): ImageRecipe {
  return memoryGuestRecipe(exec, {
    name: "lb",
    alone: [],
    programs: ["qemu-guest-agent", "haproxy"],
    own: [LB_SCRIPTS, GUEST_MODULES, PROGRAMS, FOLDERS],
    root: (packages, release) =>
      memoryRoot(packages, release, exec, {
        folders: FOLDERS,
        programs: PROGRAMS,
        modules: GUEST_MODULES,
        scripts: LB_SCRIPTS,
        links: {},
      }),
  });
}
