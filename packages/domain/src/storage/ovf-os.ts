// Operating systems as CIM numbers them -> PVE's types of guests. What is not listed is "other".

const KINDS: Readonly<Record<string, readonly number[]>> = {
  l24: [97, 98],
  l26: [36, 79, 80, 82, 83, 84, 85, 87, 89, 90, 91, 92, 93, 94, 95, 96, 99, 100, 101, 106, 107, 108, 109],
  solaris: [29, 81],
  w2k: [58],
  w2k3: [69, 70],
  w2k8: [76, 77],
  win10: [116, 119, 120, 121],
  win11: [122, 123],
  win7: [103, 105],
  win8: [111, 112, 113, 114, 115, 117, 118],
  wvista: [73, 74],
  wxp: [18, 67, 71, 72, 75],
};

const byNumber: ReadonlyMap<string, string> = new Map(
  Object.entries(KINDS).flatMap(([kind, numbers]) =>
    numbers.map((number) => [String(number), kind] as const),
  ),
);

export function guestTypeOfOs(id: string): string {
  return byNumber.get(id.trim()) ?? "other";
}
