// Every finding by its id. An id is stable: scripts match on it.
import { AppError } from "@gpve/contracts/errors.ts";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { addonFindings } from "./addon-findings.ts";
import { clusterFindings } from "./cluster-findings.ts";
import { fileFindings } from "./file-findings.ts";
import { platformFindings } from "./platform-findings.ts";
import { secretsFindings } from "./secrets-findings.ts";
import type { FindingKind } from "./finding.ts";

export const catalogue = {
  ...fileFindings,
  ...secretsFindings,
  ...platformFindings,
  ...clusterFindings,
  ...addonFindings,
} as const satisfies Record<string, FindingKind>;

export type FindingId = keyof typeof catalogue;

export function findingKind(id: string): FindingKind & { readonly id: FindingId } {
  if (Object.hasOwn(catalogue, id)) return { id: id as FindingId, ...catalogue[id as FindingId] };
  const near = didYouMean(id, Object.keys(catalogue));
  throw new AppError(
    "object.not_found",
    `there is no finding "${id}"${near === undefined ? "" : `; did you mean ${near}?`}`,
  );
}
