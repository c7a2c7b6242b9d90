// Whether the platform has the PCI devices that machines are to have. Those that machines have already are not asked for.
import type { Machine } from "../cluster/machine.ts";
import type { Driver } from "../driver/driver.ts";
import { error, type Finding } from "./finding-report.ts";

export const mappingPath = (mapping: string): string => `/mapping/pci/${mapping}`;

/** `made`: machines as far as they are still to be made. */
export async function checkDevices(made: readonly Machine[], driver: Driver): Promise<readonly Finding[]> {
  const wanted = new Map(
    made.flatMap(({ host, size }) =>
      size.pci.map(({ mapping }) => [`${mapping} on ${host}`, { mapping, host }] as const),
    ),
  );
  if (wanted.size === 0) return [];
  const known = await driver.pciMappings();
  const findings: Finding[] = [];
  for (const [subject, { mapping, host }] of wanted) {
    const nodes = known.get(mapping);
    if (nodes?.includes(host) === true) continue;
    // One that may not be used is not shown either, which is told as a privilege that is missing.
    if (nodes === undefined && (await driver.privileges(mappingPath(mapping)))?.has("Mapping.Use") === false)
      continue;
    const evidence =
      nodes === undefined
        ? `mappings there: ${[...known.keys()].join(", ") || "none"}`
        : `it has devices on ${nodes.join(", ") || "no node"}`;
    findings.push(error("mapping-missing", subject, evidence));
  }
  return findings;
}
