import { expect, it } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "./collections.ts";
import { Membership, type MembershipDeps } from "./membership.ts";

it("renews nothing for a certificate that was replaced while the new one was being made", async () => {
  const records = new MemoryRecords();
  let meanwhile = async (): Promise<void> => undefined;
  const issuer = {
    issueAgent: async () => {
      await meanwhile();
      return { certPem: "new", fingerprint: "NEW" };
    },
  } as unknown as MembershipDeps["issuer"];
  const membership = new Membership({
    records,
    clock: systemClock,
    issuer,
    random: (bytes) => new Uint8Array(bytes),
  });
  await membership.enrolLocal("n1", "127.0.0.1", 8444, "OLD");
  meanwhile = () => membership.enrolLocal("n1", "127.0.0.1", 8444, "REJOINED");
  await expect(membership.renew("n1", "OLD", "csr")).rejects.toMatchObject({ code: "access.denied" });
  expect(records.collection(nodeRecords).get("n1")?.value).toMatchObject({ certFingerprint: "REJOINED" });
  meanwhile = async () => undefined;
  await membership.renew("n1", "REJOINED", "csr");
  expect(records.collection(nodeRecords).get("n1")?.value).toMatchObject({
    certFingerprint: "NEW",
    previousFingerprint: "REJOINED",
  });
});
