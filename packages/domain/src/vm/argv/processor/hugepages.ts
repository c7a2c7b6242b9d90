// Huge pages: which size holds a piece of memory.
import { refused } from "../../../request/failures.ts";
import type { VmValues } from "../../config/vm-config.ts";
import type { HostFacts } from "../host-facts.ts";

/** The size of the pages that hold this much memory, as the configuration wants and the host has them. */
export function hugepageSize(
  values: VmValues,
  { hugepageSizesMiB: sizes }: Pick<HostFacts, "hugepageSizesMiB">,
  sizeMiB: number,
): number {
  const wholeMiB = Math.trunc(sizeMiB);
  if (sizeMiB <= 0 || wholeMiB % 2 !== 0)
    throw refused(`memory size '${sizeMiB}' is not a positive even integer; cannot use for hugepages`);
  if (!sizes.includes(2) && !sizes.includes(1024)) throw refused("your system doesn't support hugepages");
  const wanted = values["hugepages"];
  if (wanted === "any") {
    if (sizes.includes(1024) && wholeMiB % 1024 === 0) return 1024;
    if (sizes.includes(2)) return 2;
    throw refused(
      `host only supports 1024 GB hugepages, but requested size '${sizeMiB}' is not a multiple of 1024 MB`,
    );
  }
  const size = Number(wanted);
  if (!sizes.includes(size)) throw refused(`your system doesn't support hugepages of ${size} MB`);
  if (wholeMiB % size !== 0)
    throw refused(`Memory size ${sizeMiB} is not a multiple of the requested hugepages size ${size}`);
  return size;
}
