// The tiny guest, for tests and first steps.
import type { Exec } from "@gpve/kit/exec.ts";
import type { ImageRecipe } from "../image-recipe.ts";
import { memoryGuestRecipe } from "../memory-guest.ts";
import { GUEST_SCRIPTS } from "./guest-scripts.ts";
import { SEED_SCRIPTS } from "./seed-script.ts";
import { GUEST_MODULES, GUEST_PROGRAMS, tinyRoot } from "./tiny-root.ts";

export function tinyRecipe(exec: Exec): ImageRecipe {
  return memoryGuestRecipe(exec, {
    name: "tiny",
    // Of openssh-client only scp is used, which needs nothing that the programs do not bring.
    alone: ["openssh-client"],
    programs: ["qemu-guest-agent", "dropbear-bin"],
    own: [GUEST_SCRIPTS, SEED_SCRIPTS, GUEST_MODULES, GUEST_PROGRAMS],
    root: (packages, release) => tinyRoot(packages, release, exec),
    data: "tiny-data",
  });
}
