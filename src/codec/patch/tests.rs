use super::*;

fn random(seed: &mut u64) -> usize {
  *seed = seed
    .wrapping_mul(6_364_136_223_846_793_005)
    .wrapping_add(1_442_695_040_888_963_407);
  usize::try_from(*seed >> 33).unwrap()
}

/// A repetitive text.
fn text(seed: &mut u64, words: usize) -> Vec<u8> {
  let mut text = Vec::new();
  for _ in 0..words {
    let number = random(seed);
    text.extend(format!("{{\"status\":\"completed\",\"priority\":\"high\",\"n\":{number}}},").bytes());
  }
  text
}

fn patched(steps: &[u8], old: &[u8]) -> Result<Vec<u8>, FrameError> {
  let mut pieces = Pieces::whole(old.to_vec());
  pieces.apply(steps.to_vec(), u64::MAX)?;
  let made = pieces.text()?;
  assert_eq!(pieces.tail(100), &made[made.len().saturating_sub(100)..]);
  Ok(made)
}

#[test]
fn a_patch_makes_the_new_text_after_random_edits() {
  let mut seed = 7;
  for round in 0..300 {
    let words = random(&mut seed) % 400;
    let old = text(&mut seed, words);
    let mut new = old.clone();
    for _ in 0..random(&mut seed) % 20 {
      let at = random(&mut seed) % (new.len() + 1);
      let removed = random(&mut seed) % 300;
      let end = (at + removed).min(new.len());
      let words = random(&mut seed) % 4;
      let inserted = text(&mut seed, words);
      new.splice(at..end, inserted);
    }
    if let Some(steps) = make(&new, &old) {
      assert!(makes(&steps, &old, &new), "round {round}");
      assert_eq!(patched(&steps, &old).unwrap(), new, "round {round}");
      assert!(steps.len() <= new.len() / 4 + 400, "round {round}");
    }
  }
}

#[test]
fn a_small_change_makes_a_small_patch() {
  let mut seed = 3;
  let old = text(&mut seed, 20_000);
  let mut new = old.clone();
  for at in [10, 200_000, 500_000, 900_000] {
    new.splice(at..at + 5, *b"something else");
  }
  let moved: Vec<u8> = new.drain(100_000..103_000).collect();
  new.splice(120_000..120_000, moved[..500].to_vec());
  let steps = make(&new, &old).unwrap();
  assert!(steps.len() < 800, "{}", steps.len());
  assert_eq!(patched(&steps, &old).unwrap(), new);
  assert_eq!(patched(&make(&old, &old).unwrap(), &old).unwrap(), old);
}

#[test]
fn a_sequence_of_patches_makes_the_last_text() {
  let mut seed = 11;
  let mut texts = vec![text(&mut seed, 500)];
  for _ in 0..60 {
    let mut next = texts[texts.len() - 1].clone();
    for _ in 0..5 {
      let at = random(&mut seed) % (next.len() - 50);
      let inserted = text(&mut seed, 1);
      next.splice(at..at + 30, inserted);
    }
    texts.push(next);
  }
  let mut pieces = Pieces::whole(texts[0].clone());
  for pair in texts.windows(2) {
    pieces.apply(make(&pair[1], &pair[0]).unwrap(), u64::MAX).unwrap();
    assert_eq!(
      (pieces.text().unwrap() == pair[1], pieces.length()),
      (true, pair[1].len())
    );
  }
  assert_eq!(pieces.tail(usize::MAX), texts[60]);
  // A patch that copies single bytes exceeds the limit of pieces.
  let bytes = vec![b'x'; MAX_PIECES + 10];
  let mut steps = Steps::new(bytes.len());
  for at in (0..bytes.len()).rev() {
    steps.push(at, 1, &[]);
  }
  let mut pieces = Pieces::whole(bytes.clone());
  pieces.apply(steps.bytes, u64::MAX).unwrap();
  assert_eq!((pieces.parts.len(), pieces.text().unwrap()), (1, bytes));
}

#[test]
fn texts_without_common_parts_make_no_patch() {
  let (mut one, mut other) = (1, 2);
  let (new, old) = (text(&mut one, 5000), vec![b'x'; 100_000]);
  assert_eq!(make(&new, &old), None);
  let noise: Vec<u8> = (0..200_000).map(|_| random(&mut other).to_le_bytes()[0]).collect();
  assert_eq!(make(&noise, &new), None);
}

#[test]
fn a_damaged_patch_is_rejected() {
  let mut seed = 5;
  let old = text(&mut seed, 50);
  let mut new = old.clone();
  new.splice(500..510, *b"other");
  let steps = make(&new, &old).unwrap();
  assert!(matches!(
    Pieces::whole(old.clone()).apply(steps.clone(), 100),
    Err(FrameError::TooLarge(_))
  ));
  for cut in 0..steps.len() {
    assert!(patched(&steps[..cut], &old).is_err(), "{cut}");
  }
  for at in 0..steps.len() {
    for bit in 0..8 {
      let mut flipped = steps.clone();
      flipped[at] ^= 1 << bit;
      // It may make another text, but must not be taken for this one.
      let same = patched(&flipped, &old).is_ok_and(|made| made == new);
      assert!(same || !makes(&flipped, &old, &new));
    }
  }
  for wrong in [
    &b""[..],
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x05\x05\x00\xff",
  ] {
    assert!(patched(wrong, &old).is_err());
  }
}
