use proptest::prelude::*;

use super::*;

/// Squares of vectors over some of the links, and a little on the diagonal.
fn filled(links: usize, vectors: &[Vec<(usize, f64)>]) -> (Matrix, DMatrix<f64>) {
    let groups = vectors
        .iter()
        .map(|vector| vector.iter().map(|&(link, _)| link).collect());
    let mut matrix = Matrix::of(links, groups, MOST_PAIRS).unwrap();
    let mut plain = DMatrix::zeros(links, links);
    // As in later iterations: what was there before makes no difference.
    matrix.add(7.0, &vectors[0]);
    matrix.clear();
    for vector in vectors {
        matrix.add(2.0, vector);
        for (&(i, a), &(j, b)) in vector
            .iter()
            .flat_map(|a| vector.iter().map(move |b| (a, b)))
        {
            plain[(i, j)] += 2.0 * a * b;
        }
    }
    for link in 0..links {
        matrix.add(0.5, &[(link, 1.0)]);
        plain[(link, link)] += 0.5;
    }
    (matrix, plain)
}

fn assert_solves(links: usize, vectors: &[Vec<(usize, f64)>], right: &[f64]) -> usize {
    let (mut matrix, plain) = filled(links, vectors);
    matrix.factorise();
    let found = matrix.solve(right);
    let back = plain * DVector::from_vec(found);
    for (n, (back, right)) in back.iter().zip(right).enumerate() {
        assert!((back - right).abs() < 1e-9, "row {n}: {back} for {right}");
    }
    matrix.rows.len()
}

/// A ring, in which all links but the last few meet two others, and one where all meet.
#[test]
fn sparse_and_dense_links_are_solved_alike() {
    let right: Vec<f64> = (0..130).map(|n| f64::from(n).sin()).collect();
    let ring: Vec<_> = (0..130)
        .map(|n| vec![(n, 1.0), ((n + 1) % 130, -0.5)])
        .collect();
    let sparse = assert_solves(130, &ring, &right);
    assert!((100..130).contains(&sparse), "{sparse}");
    let all: Vec<_> = (0..130)
        .map(|n| (n, 1.0 + f64::from(n as u8).cos()))
        .collect();
    assert_eq!(assert_solves(130, &[all], &right), 0);
}

/// Two links with the same routes, and no room, are one: one of them gets the whole price.
#[test]
fn rounding_is_no_pivot() {
    let mut matrix = Matrix::of(2, [vec![0, 1]].into_iter(), 4).unwrap();
    matrix.add(1.0, &[(0, 1.0), (1, 1.0)]);
    matrix.factorise();
    assert_eq!(matrix.solve(&[3.0, 3.0]), [3.0, 0.0]);
}

proptest! {
    /// Any pattern, over one block of dense links or several.
    #[test]
    fn what_is_solved_is_a_solution(
        links in 1usize..120,
        seeds in prop::collection::vec(
            prop::collection::btree_map(0usize..120, -1.0f64..1.0, 1..6),
            1..80,
        ),
        right in prop::collection::vec(-1.0f64..1.0, 120),
    ) {
        let fold = |vector: std::collections::BTreeMap<usize, f64>| {
            let links = vector.into_iter().map(|(link, value)| (link % links, value));
            links.collect::<std::collections::BTreeMap<_, _>>().into_iter().collect()
        };
        let vectors: Vec<Vec<(usize, f64)>> = seeds.into_iter().map(fold).collect();
        assert_solves(links, &vectors, &right[..links]);
    }
}

/// A chain takes little more than its own pairs, links that all meet take all.
#[test]
fn pairs_are_bounded() {
    let chain = || (0..99).map(|link| vec![link, link + 1]);
    assert!(Matrix::of(100, chain(), 300).is_some());
    assert!(Matrix::of(100, chain(), 100).is_none());
    let all = || (0..100).map(|link| (0..link).collect());
    assert!(Matrix::of(100, all(), 10_000).is_some());
    assert!(Matrix::of(100, all(), 9_000).is_none());
}
