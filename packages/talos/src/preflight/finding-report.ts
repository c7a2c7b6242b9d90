// Something that was found, as reports show it.
import type { FindingId } from "../findings/catalogue.ts";
import type { Severity } from "../findings/finding.ts";

export interface Finding {
  readonly id: FindingId;
  readonly severity: Severity;
  /** What it is about: a node, a machine, a storage. */
  readonly subject: string;
  /** What was seen. */
  readonly evidence: string;
}

export const error = (id: FindingId, subject: string, evidence: string): Finding => ({
  id,
  severity: "error",
  subject,
  evidence,
});

export const warning = (id: FindingId, subject: string, evidence: string): Finding => ({
  ...error(id, subject, evidence),
  severity: "warning",
});
