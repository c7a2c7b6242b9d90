// What is worth hours, not minutes: `./gpve test --long` runs it after everything else.

export interface LongSoak {
  readonly name: string;
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
}

export const longSoaks: readonly LongSoak[] = [
  {
    name: "a million broken inputs for each reader of foreign bytes",
    file: "test/integration/fuzz-readers.test.ts",
    env: { GPVE_FUZZ_INPUTS: "1000000" },
  },
  {
    name: "a million bad requests to a running server",
    file: "test/integration/fuzz-http.test.ts",
    env: { GPVE_FUZZ_REQUESTS: "1000000" },
  },
  {
    name: "every way to break the product that the tests must notice",
    file: "test/mutations/mutations.test.ts",
    env: { GPVE_MUTATIONS: "all" },
  },
  {
    name: "50 000 random guests, ours and PVE's",
    file: "test/conformance/qemu-dialects.test.ts",
    env: { GPVE_DIALECT_RUNS: "50000" },
  },
  {
    name: "10 000 operations of four users, memory bounded",
    file: "test/integration/busy-users.test.ts",
    env: { GPVE_SOAK_OPERATIONS: "10000" },
  },
  {
    name: "1 000 creates and clones by three tenants at once, killed in between: quotas hold",
    file: "test/integration/quotas.test.ts",
    env: { GPVE_QUOTA_REQUESTS: "1000" },
  },
  {
    name: "1 000 creates and clones at three servers on one store that loses a member: quotas hold",
    file: "test/integration/quotas-many-servers.test.ts",
    env: { GPVE_QUOTA_REQUESTS: "1000" },
  },
];
